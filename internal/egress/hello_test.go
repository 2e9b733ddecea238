package egress_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"time"
)

const named = "allowed.test"

// corpusHello is what a case's third column stands for: one of the hellos below,
// or a plain one with that server name.
func corpusHello(name string) []byte {
	for _, table := range []map[string]func() []byte{realHellos(), hiddenNames(), oddNames(), brokenHellos(), brokenRecords()} {
		if make, ok := table[name]; ok {
			return make()
		}
	}
	return hello(name, nil)
}

func with(kind uint16, data []byte) func() []byte {
	return func() []byte {
		return hello(named, func(ext []byte) []byte { return append(ext, extension(kind, data)...) })
	}
}

func instead(ext []byte) func() []byte {
	return func() []byte { return hello("", func([]byte) []byte { return ext }) }
}

func plain(name string) func() []byte { return func() []byte { return hello(name, nil) } }

// rawName is a hello whose server name extension has this body.
func rawName(body []byte) func() []byte { return instead(extension(0, body)) }

// realHellos are what clients send that must get through.
func realHellos() map[string]func() []byte {
	goHello := func(config *tls.Config) func() []byte { return func() []byte { return realHello(config) } }
	return map[string]func() []byte{
		"go10": goHello(&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10}),
		"go12": goHello(&tls.Config{MaxVersion: tls.VersionTLS12}), "go13": goHello(&tls.Config{MinVersion: tls.VersionTLS13}),
		"goh2":   goHello(&tls.Config{NextProtos: []string{"h2", "http/1.1"}}),
		"gopq":   goHello(&tls.Config{CurvePreferences: []tls.CurveID{tls.X25519MLKEM768}}),
		"grease": with(0x3a3a, []byte{0}), "ticket": with(35, bytes.Repeat([]byte{7}, 4000)), "padded": with(21, make([]byte, 9000)),
		"fragmented":   func() []byte { return fragmented(hello(named, nil), 1) },
		"records":      func() []byte { return fragmented(with(21, make([]byte, 20_000))(), 1<<14) },
		"onebyte":      func() []byte { return fragmented(realHello(&tls.Config{NextProtos: []string{"h2"}}), 1) },
		"ssl3record":   func() []byte { return edit(hello(named, nil), 2, 0) },
		"shortsession": func() []byte { return body(func(b []byte) []byte { return slices.Insert(edit(b, 34, 2), 35, 1, 2) }) },
	}
}

// realHello is what Go's own client sends.
func realHello(config *tls.Config) []byte {
	config.ServerName = named
	in, out := net.Pipe()
	defer func() { _ = in.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	done := make(chan struct{})
	go func() { defer close(done); _ = tls.Client(out, config).HandshakeContext(ctx) }()
	defer func() { cancel(); _ = out.Close(); <-done }()
	head := make([]byte, 5)
	_, _ = io.ReadFull(in, head)
	rest := make([]byte, binary.BigEndian.Uint16(head[3:]))
	_, _ = io.ReadFull(in, rest)
	return append(head, rest...)
}

func hiddenNames() map[string]func() []byte {
	return map[string]func() []byte{
		"ech": with(0xfe0d, []byte{0}), "echdraft8": with(0xfe08, nil), "echdraft10": with(0xfe0a, []byte{1, 2}),
		"echouter": with(0xfd00, []byte{2, 0, 0}), "echold": with(0xff02, nil), "esni": with(0xffce, []byte{0, 0}), "early": with(42, nil),
		"earlyandevil": func() []byte {
			return slices.Concat(with(42, nil)(), []byte{23, 3, 3, 0, 1, 0}, hello("evil.test", nil))
		},
	}
}

func oddNames() map[string]func() []byte {
	list := func(entries ...[]byte) []byte { return vector(slices.Concat(entries...)) }
	one := func(kind byte, name string) []byte { return append([]byte{kind}, vector([]byte(name))...) }
	return map[string]func() []byte{
		"none": plain(""), "twonames": rawName(serverNames(named, "evil.test")),
		"twoextensions": with(0, serverNames("evil.test")), "evilfirst": instead(append(extension(0, serverNames("evil.test")), extension(0, serverNames(named))...)),
		"nulname": plain(named + "\x00.evil.test"), "spacename": plain(named + " "), "utf8name": plain("\u0430llowed.test"), "deletename": plain(named + "\x7f"),
		"kelvin": plain("allowed.test\u212a"), "emptyname": rawName(list(one(0, ""))), "emptylist": rawName(list()), "emptyextension": rawName(nil),
		"listtrailing": rawName(append(serverNames(named), 0)), "kindone": rawName(list(one(1, named))), "evilkind": rawName(list(one(0, named), one(1, "evil.test"))),
		"dotname": plain(named + "."), "twodots": plain("allowed..test"), "prefixname": plain("evil-" + named), "suffixname": plain(named + ".evil.test"),
		"portname": plain(named + ":443"), "bracketname": plain("[" + named + "]"), "longname": plain(strings.Repeat("a.", 500) + named), "wildname": plain("*.test"),
		"alpnonly": instead(extension(16, []byte{0, 3, 2, 'h', '2'})), "fragmentedevil": func() []byte { return fragmented(hello("evil.test", nil), 3) },
		"fragmentednone": func() []byte { return fragmented(hello("", nil), 1) },
	}
}

// body changes the body of a good hello and frames it anew.
func body(change func(b []byte) []byte) []byte {
	b := change(slices.Clone(hello(named, nil)[9:]))
	return record(append([]byte{1, byte(len(b) >> 16), byte(len(b) >> 8), byte(len(b))}, b...))
}

func edit(b []byte, at int, to byte) []byte {
	b = slices.Clone(b)
	b[at] = to
	return b
}

// In the body of hello: 0 version, 2 random, 34 session, 35 ciphers, 39 compression, 41 extensions.
func brokenHellos() map[string]func() []byte {
	changed := func(change func(b []byte) []byte) func() []byte { return func() []byte { return body(change) } }
	return map[string]func() []byte{
		"noextensions":  changed(func(b []byte) []byte { return append(b[:41:41], 0, 0) }),
		"nociphers":     changed(func(b []byte) []byte { return slices.Concat(b[:35], []byte{0, 0}, b[39:]) }),
		"oddciphers":    changed(func(b []byte) []byte { return slices.Concat(b[:35], []byte{0, 3, 1, 2, 3}, b[39:]) }),
		"nocompression": changed(func(b []byte) []byte { return slices.Concat(b[:39], []byte{0}, b[41:]) }),
		"longsession":   changed(func(b []byte) []byte { return slices.Concat(b[:34], []byte{33}, make([]byte, 33), b[35:]) }),
		"overrun":       changed(func(b []byte) []byte { return edit(b, 42, b[42]+1) }),
		"underrun":      changed(func(b []byte) []byte { return edit(b, 42, b[42]-1) }),
		"tls4":          changed(func(b []byte) []byte { return edit(b, 0, 4) }),
		"trailing":      func() []byte { return record(append(hello(named, nil)[5:], 1, 0, 0, 0)) },
		"twohellos":     func() []byte { return record(append(hello(named, nil)[5:], hello("evil.test", nil)[5:]...)) },
		"shortlength":   func() []byte { return edit(hello(named, nil), 8, hello(named, nil)[8]-1) },
		"hugehello":     func() []byte { return record([]byte{1, 1, 0, 1, 3, 3}) },
		"manyfragments": func() []byte { return fragmented(with(21, make([]byte, 40_000))(), 1) },
	}
}

func brokenRecords() map[string]func() []byte {
	good := hello(named, nil)
	around := func(middle ...byte) func() []byte {
		return func() []byte { return slices.Concat(record(good[5:20]), middle, record(good[20:])) }
	}
	before := func(first ...byte) func() []byte { return func() []byte { return append(first, good...) } }
	return map[string]func() []byte{
		"recordversion": func() []byte { return edit(good, 1, 4) },
		"ssl2":          func() []byte { return append([]byte{0x80, 46, 1, 3, 1, 0, 3, 0, 0, 0, 32}, make([]byte, 40)...) },
		"emptyrecord":   before(22, 3, 1, 0, 0), "hugerecord": func() []byte { return append([]byte{22, 3, 1, 0x40, 1, 1}, make([]byte, 1<<14)...) },
		"interleavedccs": around(20, 3, 3, 0, 1, 1), "interleavedalert": around(21, 3, 3, 0, 2, 1, 90), "interleaveddata": around(23, 3, 3, 0, 1, 0),
		"ccsfirst": before(20, 3, 3, 0, 1, 1), "alertfirst": before(21, 3, 3, 0, 2, 1, 0), "datafirst": before(23, 3, 3, 0, 1, 0), "heartbeatfirst": before(24, 3, 3, 0, 3, 1, 0x40, 0),
		"serverhello": func() []byte { return edit(good, 5, 2) }, "hellorequest": before(22, 3, 1, 0, 4, 0, 0, 0, 0),
		"dtls": func() []byte { return edit(edit(good, 1, 0xfe), 2, 0xfd) },
	}
}
