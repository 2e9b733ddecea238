// Package unpack promises to show what compressed texts anywhere in a stream hold, in step with the
// stream. It knows gzip, the files of ZIP archives, git's packs, zlib and deflate, one within
// another. What unpacks to more than can be searched, or hides what it says, is refused. It decides
// nothing about what it shows.
package unpack
