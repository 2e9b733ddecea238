package issuer

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
)

// assertion is a word of whoever has the key (RFC 7519), signed with it. Whose key it is
// says where another one is made.
func assertion(key []byte, whose string, header, claims map[string]any) (string, error) {
	private, err := privateKey(key)
	if err != nil {
		return "", errors.New("there is no RSA private key in PEM: make one on " + whose)
	}
	header["alg"], header["typ"] = "RS256", "JWT"
	first, err := json.Marshal(header)
	if err != nil {
		return "", err
	}
	second, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	coding := base64.RawURLEncoding
	text := coding.EncodeToString(first) + "." + coding.EncodeToString(second)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, private, crypto.SHA256, sum[:])
	if err != nil {
		return "", errors.New("the private key cannot sign: make a new one on " + whose)
	}
	return text + "." + coding.EncodeToString(signature), nil
}

// privateKey reads a key as GitHub gives it (PKCS #1), or in PKCS #8.
func privateKey(text []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no PEM")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	own, ok := key.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("no RSA key")
	}
	return own, nil
}
