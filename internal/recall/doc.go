// Package recall ranks short texts for a query, in memory: BM25 over stemmed
// words, names and identifiers kept whole beside their parts, what stands next
// to a hit, what is linked to it, and what is newer (D-42).
//
// It promises the same order for the same texts and query, time that grows
// with the words of the query and the texts that hold them and with nothing
// else, and that no query fails. It stores nothing and decides nothing: which
// texts may be shown is its caller's to say, through a filter that holds
// before any cap.
package recall
