package machines

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"filippo.io/age"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/node"
	"github.com/nacre-dev/nacre/internal/registry"
)

// leases is the table of credentials that were minted for sessions and not taken back: the ledger of leases of
// all machines. A row belongs to the holder of a node's lease, as its session does; when it ends is of the
// database's clock. handle is what the credential is revoked with, sealed. sealing is how a machine is sealed to.
const leases = `
CREATE TABLE nacre_lease (
    machine    text REFERENCES nacre_machine,
    lease      text,
    session    text NOT NULL,
    owner      text NOT NULL,
    credential text NOT NULL,
    holder     uuid NOT NULL,
    since      timestamptz NOT NULL DEFAULT clock_timestamp(),
    until      timestamptz NOT NULL,
    handle     bytea,
    claimed    timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (machine, lease)
);
ALTER TABLE nacre_machine ADD sealing bytea`

const (
	// leaseFile keeps, in the folder of keys, what opens the handles that other machines sealed. It
	// keeps, too, what signs those of this one, and all else that it says to them ([Signatures]).
	leaseFile = "store.lease"
	// sealingDomain is what a machine signs how it is sealed to in, and handleDomain what it signs a handle in.
	sealingDomain, handleDomain = "nacre-machine-sealing-v1\n", "nacre-lease-handle-v1\n"
	// maxHandle is the longest sealed handle, in bytes.
	maxHandle = 128 << 10
)

// Lease is a credential that was minted for a session of a machine, and may still be good.
type Lease struct {
	Machine    string
	ID         string
	Session    nacre.SessionID
	Group      nacre.Group
	Credential string
	Since      time.Time
	Until      time.Time
	// Lost says that the session's process was declared over.
	Lost bool

	handle []byte
}

// Name is what its session is called at other machines.
func (l Lease) Name() string { return l.Machine + "/" + string(l.Session) }

// Leases are those of the sessions of all machines. A nil one has none.
//
// What a credential is revoked with may be the credential itself. It is sealed to the machines that the installation's key certified, each
// of which signed how, and signed by its own machine. Whoever can write to the database, and is none of them, can neither read one nor have
// another one revoked.
type Leases struct {
	*Machine

	mu  sync.Mutex
	met *met // nil until this machine's keys were made known
}

// met is what this process knows of the store.
type met struct {
	pool      *pgxpool.Pool
	authority authority
	machine   string
	own       *leaseKeys
}

// leaseKeys are this machine's.
type leaseKeys struct {
	opens *age.X25519Identity
	signs ed25519.PrivateKey
}

// sealing is how a machine is sealed to, and what verifies its handles.
type sealing struct {
	Installation string `json:"installation"`
	Machine      string `json:"machine"`
	Recipient    string `json:"recipient"`
	Signer       string `json:"signer"`
}

// handle is what one machine tells others of a lease.
type handle struct {
	Installation string `json:"installation"`
	Machine      string `json:"machine"`
	Lease        string `json:"lease"`
	Credential   string `json:"credential"`
	Handle       string `json:"handle"`
}

// LeasesOf are those of an installation; nil where it has no store.
func LeasesOf(r *registry.Registry, keys audit.Keys) *Leases {
	m := Of(r, keys)
	if m == nil {
		return nil
	}
	return &Leases{Machine: m}
}

// meet lets the others know of this machine's keys, once.
func (l *Leases) meet(ctx context.Context) (*met, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.met != nil {
		return l.met, nil
	}
	if _, err := l.store.Room(ctx, "node", node.Migrations); err != nil {
		return nil, err
	}
	pool, a, me, err := l.standing(ctx)
	if err != nil {
		return nil, err
	}
	own, err := leaseKeysOf(l.paths)
	if err != nil {
		return nil, err
	}
	if err := l.publish(ctx, pool, me, own); err != nil {
		return nil, told(err)
	}
	l.met = &met{pool, a, me.Name, own}
	return l.met, nil
}

// leaseKeysOf reads this machine's, and makes them where there are none yet.
func leaseKeysOf(paths registry.Paths) (*leaseKeys, error) {
	path := filepath.Join(paths.Keys(), leaseFile)
	text, err := disk.Read(path, maxHead)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeLeaseKeys(path); err == nil {
			text, err = disk.Read(path, maxHead)
		}
	}
	if err != nil {
		return nil, err
	}
	first, second, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	opens, err := age.ParseX25519Identity(first)
	seed, wrong := hex.DecodeString(second)
	if err != nil || wrong != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("%s is not the two keys of leases: remove it, and new ones are made", path) // it holds secrets
	}
	return &leaseKeys{opens, ed25519.NewKeyFromSeed(seed)}, nil
}

func makeLeaseKeys(path string) error {
	opens, err := age.GenerateX25519Identity()
	if err != nil {
		return err
	}
	_, signs, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	return disk.Create(path, []byte(opens.String()+"\n"+hex.EncodeToString(signs.Seed())+"\n"), 0o600)
}

// publish lets other machines seal to this one, and verify what it says. One whose key was rotated before cannot
// tell them how, and takes no part.
func (l *Leases) publish(ctx context.Context, pool *pgxpool.Pool, me Listed, own *leaseKeys) error {
	says, signed := own.published(l.Machine, me.Name)
	var have []byte
	if err := pool.QueryRow(ctx, `SELECT sealing FROM nacre_machine WHERE name = $1`, me.Name).Scan(&have); err != nil {
		return err
	}
	if now, ok := sealingOf(have, me, l.store.Installation()); ok && now == says || hex.EncodeToString(l.keys.Public()) != me.Key {
		return nil
	}
	_, err := pool.Exec(ctx, `UPDATE nacre_machine SET sealing = $2 WHERE name = $1`, me.Name, signed)
	return err
}

// published is what a machine says of these keys, and that with its signature.
func (k *leaseKeys) published(m *Machine, name string) (says sealing, signed []byte) {
	says = sealing{m.store.Installation(), name, k.opens.Recipient().String(), hex.EncodeToString(k.signs.Public().(ed25519.PublicKey))}
	statement, _ := json.Marshal(says) // texts
	return says, append(m.keys.Sign(sealingDomain, statement), statement...)
}

// sealingOf is how a machine, as it signed itself, is sealed to.
func sealingOf(text []byte, of Listed, installation string) (s sealing, ok bool) {
	key, err := hex.DecodeString(of.Key)
	if err != nil || !opened(sealingDomain, text, key, &s) {
		return sealing{}, false
	}
	return s, s.Installation == installation && s.Machine == of.Name
}

// opened reads a signature and the statement that it signs, where it does.
func opened(domain string, text []byte, by ed25519.PublicKey, into any) bool {
	if len(text) <= ed25519.SignatureSize || len(by) != ed25519.PublicKeySize {
		return false
	}
	signature, statement := text[:ed25519.SignatureSize], text[ed25519.SignatureSize:]
	return ed25519.Verify(by, append([]byte(domain), statement...), signature) && json.Unmarshal(statement, into) == nil
}

// sealings are those of the machines that the installation's key certified.
func (l *Leases) sealings(ctx context.Context, m *met) (map[string]sealing, error) {
	trusted, err := l.trusted(m.authority.key)
	if err != nil {
		return nil, err
	}
	rows, err := m.pool.Query(ctx, `SELECT name, key, since, certificate, sealing FROM nacre_machine WHERE certificate IS NOT NULL AND sealing IS NOT NULL`)
	if err != nil {
		return nil, err
	}
	all := map[string]sealing{}
	var one Listed
	var key, says []byte
	_, err = pgx.ForEachRow(rows, []any{&one.Name, &key, &one.Since, &one.certificate, &says}, func() error {
		one.Key = hex.EncodeToString(key)
		if s, ok := sealingOf(says, one, l.store.Installation()); ok && one.certified(trusted, l.store.Installation()) {
			all[one.Name] = s
		}
		return nil
	})
	return all, err
}

// Begin says that a credential is about to be minted for a session, which is good for no longer. A process
// whose lease is over mints none.
func (l *Leases) Begin(ctx context.Context, one Lease, atMost time.Duration) error {
	holder := l.store.Holder()
	if holder == "" {
		return nil // it is of no session that others could take for lost
	}
	return l.do(ctx, `INSERT INTO nacre_lease (machine, lease, session, owner, credential, holder, until)
		SELECT $1, $2, $3, $4, $5, $6::uuid, clock_timestamp() + $7::interval FROM held`, one.ID, string(one.Session), string(one.Group), one.Credential, holder, atMost)
}

// Keep lets other machines take back what was minted. It is good for no longer.
func (l *Leases) Keep(ctx context.Context, one Lease, with nacre.Secret, atMost time.Duration) error {
	if l.store.Holder() == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*asking)
	defer cancel()
	m, err := l.meet(ctx)
	if err != nil {
		return err
	}
	to, err := l.sealings(ctx, m)
	if err != nil {
		return told(err)
	}
	delete(to, m.machine)
	sealed, err := m.own.seal(handle{l.store.Installation(), m.machine, one.ID, one.Credential, with.Reveal()}, to)
	if err != nil {
		return err
	}
	return l.do(ctx, `UPDATE nacre_lease SET handle = $3, until = least(until, clock_timestamp() + $4::interval) FROM held WHERE machine = $1 AND lease = $2`, one.ID, sealed, atMost)
}

// seal signs a handle, and seals it to other machines; it is nothing where there are none.
func (k *leaseKeys) seal(h handle, to map[string]sealing) ([]byte, error) {
	var recipients []age.Recipient
	for _, s := range to {
		r, err := age.ParseX25519Recipient(s.Recipient)
		if err != nil {
			return nil, err
		}
		recipients = append(recipients, r)
	}
	if len(recipients) == 0 || h.Handle == "" {
		return nil, nil
	}
	statement, _ := json.Marshal(h) // texts
	var sealed bytes.Buffer
	into, err := age.Encrypt(&sealed, recipients...)
	if err == nil {
		_, err = into.Write(append(ed25519.Sign(k.signs, append([]byte(handleDomain), statement...)), statement...))
	}
	if err == nil {
		err = into.Close()
	}
	return sealed.Bytes(), err
}

// Why a lease of another machine cannot be taken back here.
var (
	ErrSealed  = errors.New("what it is revoked with is not sealed to this machine, or its own machine did not seal it")
	errUnknown = errors.New("its machine told no other what it is revoked with: it was lost while the credential was minted, or knew of no other then")
)

// open gives what another machine's lease is revoked with.
func (l *Leases) open(m *met, one Lease, of map[string]sealing) (nacre.Secret, error) {
	if len(one.handle) == 0 {
		return nacre.Secret{}, errUnknown
	}
	clear, err := age.Decrypt(bytes.NewReader(one.handle), m.own.opens)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(clear, maxHandle))
	}
	by, wrong := hex.DecodeString(of[one.Machine].Signer)
	var h handle
	if err != nil || wrong != nil || !opened(handleDomain, text, by, &h) {
		return nacre.Secret{}, ErrSealed
	}
	if h.Handle == "" || h != (handle{l.store.Installation(), one.Machine, one.ID, one.Credential, h.Handle}) {
		return nacre.Secret{}, ErrSealed
	}
	return nacre.NewSecret(h.Handle), nil
}

// End says that a credential of this machine was taken back, or never was.
func (l *Leases) End(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*asking)
	defer cancel()
	m, err := l.meet(ctx)
	if err != nil {
		return err
	}
	_, err = m.pool.Exec(ctx, `DELETE FROM nacre_lease WHERE machine = $1 AND lease = $2`, m.machine, id)
	return told(err)
}

// do changes one row of this machine, under this process's lease. statement takes the machine's name and what
// is given, and reads held.
func (l *Leases) do(ctx context.Context, statement string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, 2*asking)
	defer cancel()
	m, err := l.meet(ctx)
	if err != nil {
		return err
	}
	args = append([]any{m.machine}, args...)
	held, more := l.store.Held(len(args))
	done, err := m.pool.Exec(ctx, `WITH held AS (`+held+`) `+statement, append(args, more...)...)
	if err == nil && done.RowsAffected() != 1 {
		err = node.ErrOver
	}
	return told(err)
}

// unheld is a lease whose session's process was declared over, or has ended.
const unheld = `NOT EXISTS (SELECT FROM nacre_node n WHERE n.incarnation = l.holder AND n.until > '-infinity')`

// List are those of all other machines that may be good, the oldest first.
func (l *Leases) List(ctx context.Context) ([]Lease, error) {
	if l == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*asking)
	defer cancel()
	m, err := l.meet(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := m.pool.Query(ctx, `SELECT machine, lease, session, owner, credential, since, until, handle, `+unheld+` FROM nacre_lease l
		WHERE machine <> $1 AND until > clock_timestamp() ORDER BY since LIMIT $2`, m.machine, atOnce)
	return read(rows, err)
}

// read are leases as they were found.
func read(rows pgx.Rows, err error) ([]Lease, error) {
	if err != nil {
		return nil, told(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l Lease, err error) {
		return l, row.Scan(&l.Machine, &l.ID, &l.Session, &l.Group, &l.Credential, &l.Since, &l.Until, &l.handle, &l.Lost)
	})
	return list, told(err)
}

// TakeBack gives the leases of these credentials that lost sessions of other machines left, each to one machine at a time and not before
// they have rested. With each comes what it is revoked with, or why this machine cannot tell. Those that revoke took back, and those that
// have ended by themselves, by the database's clock, are gone then.
func (l *Leases) TakeBack(ctx context.Context, credentials []string, rested time.Duration, revoke func(one Lease, with nacre.Secret, err error) (done bool)) error {
	if l == nil || len(credentials) == 0 {
		return nil
	}
	m, err := l.meet(ctx)
	if err != nil {
		return err
	}
	rows, err := m.pool.Query(ctx, `WITH ended AS (DELETE FROM nacre_lease WHERE until <= clock_timestamp())
		UPDATE nacre_lease l SET claimed = clock_timestamp() WHERE (machine, lease) IN (SELECT machine, lease FROM nacre_lease l
			WHERE machine <> $1 AND credential = ANY($2) AND until > clock_timestamp() AND `+unheld+` AND claimed <= clock_timestamp() - $3::interval LIMIT $4 FOR UPDATE SKIP LOCKED)
		RETURNING machine, lease, session, owner, credential, since, until, handle, true`, m.machine, credentials, rested, atOnce)
	list, err := read(rows, err)
	if err != nil || len(list) == 0 {
		return err
	}
	of, err := l.sealings(ctx, m)
	if err != nil {
		return told(err)
	}
	for _, one := range list {
		with, why := l.open(m, one, of)
		if !revoke(one, with, why) {
			continue
		}
		if _, err := m.pool.Exec(ctx, `DELETE FROM nacre_lease WHERE machine = $1 AND lease = $2`, one.Machine, one.ID); err != nil {
			return told(err)
		}
	}
	return nil
}
