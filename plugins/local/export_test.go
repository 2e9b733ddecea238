package main

// Serve runs the handler.
var Serve = serve

// ParseSaid reads a client's line.
func ParseSaid(data []byte) (sender, chat, body string, err error) {
	s, err := parseSaid(data)
	return s.sender, s.chat, s.body, err
}
