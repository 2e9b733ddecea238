// Package recall ranks short texts for a query, in memory (D-42). It goes by BM25 over stemmed
// words, with names and identifiers kept whole beside their parts. It goes, too, by what stands
// next to a hit, what is linked to it, and what is newer.
//
// It promises the same order for the same texts and query, and that no query fails. Its time grows
// with the words of the query and the texts that hold them, and with nothing else. It stores
// nothing and decides nothing: which texts may be shown is its caller's to say, through a filter
// that holds before any cap.
package recall
