package lease

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"

	"github.com/nacre-dev/nacre"
)

// maxEncrypted is the largest file that age encrypted, in bytes.
const maxEncrypted = 64 << 10

// identities are those that open the age file. No error repeats what is in their file.
func (s Source) identities() ([]age.Identity, error) {
	text, err := readFile(s.Identity)
	if err != nil {
		return nil, fmt.Errorf("its identity file: %w", err)
	}
	all, err := age.ParseIdentities(strings.NewReader(text))
	if err != nil {
		return nil, errors.New("its identity file holds no identities: age-keygen writes one")
	}
	return all, nil
}

// decrypt opens the age file. It takes no passphrase, which somebody would have to type.
func (s Source) decrypt() (string, error) {
	all, err := s.identities()
	if err != nil {
		return "", err
	}
	sealed, err := readRegular(s.Age, maxEncrypted, written)
	if err != nil {
		return "", err
	}
	opened, err := age.Decrypt(bytes.NewReader(sealed), all...)
	if err != nil {
		return "", errors.New("none of the identities opens it: encrypt it for the recipient of one of them (age-keygen -y)")
	}
	text, err := io.ReadAll(io.LimitReader(opened, maxValue+2))
	if err != nil {
		return "", errors.New("it is damaged: encrypt the value anew")
	}
	return string(text), nil
}

// encrypt seals a value for the first identity.
func (s Source) encrypt(value nacre.Secret) ([]byte, error) {
	all, err := s.identities()
	if err != nil {
		return nil, err
	}
	var recipient age.Recipient
	switch one := all[0].(type) {
	case *age.X25519Identity:
		recipient = one.Recipient()
	case *age.HybridIdentity:
		recipient = one.Recipient()
	default:
		return nil, errors.New("its identity file begins with an identity that is not age's own: age-keygen writes one")
	}
	var sealed bytes.Buffer
	into, err := age.Encrypt(&sealed, recipient)
	if err == nil {
		_, err = io.WriteString(into, value.Reveal())
	}
	if err == nil {
		err = into.Close()
	}
	return sealed.Bytes(), err
}
