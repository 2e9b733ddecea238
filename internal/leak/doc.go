// Package leak promises to find secrets in a stream that somebody is given, before they get it. It
// finds them as they are, escaped, in UTF-16, in hexadecimal digits and in base64 at any place. It
// is linear in the stream, keeps no more than a secret may have begun in, and does not know
// compressed or encrypted text.
package leak
