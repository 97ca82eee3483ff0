package audit

import (
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"
)

// tree is the right edge of an RFC 6962 tree: all that is needed to add leaves
// and to know the root.
type tree struct {
	size int64
	// edge[i] is the root of the complete subtree of 2^i leaves that ends
	// where bit i of size ends; valid where that bit is set.
	edge [63]tlog.Hash
}

// add adds a leaf.
func (t *tree) add(leaf tlog.Hash) { t.grow(leaf, nil) }

// grow adds a leaf and calls store, if it is not nil, with each hash that is
// complete now, in the order in which tlog stores them.
func (t *tree) grow(leaf tlog.Hash, store func(tlog.Hash)) {
	level := 0
	for h := leaf; ; level++ {
		if store != nil {
			store(h)
		}
		if t.size>>level&1 == 0 {
			t.edge[level] = h
			break
		}
		h = tlog.NodeHash(t.edge[level], h)
	}
	t.size++
}

// root is the hash of the tree as a whole.
func (t *tree) root() tlog.Hash {
	if t.size == 0 {
		empty, _ := tlog.TreeHash(0, nil) // cannot fail
		return empty
	}
	level := bits.TrailingZeros64(uint64(t.size))
	h := t.edge[level]
	for level++; t.size>>level != 0; level++ {
		if t.size>>level&1 == 1 {
			h = tlog.NodeHash(t.edge[level], h)
		}
	}
	return h
}

// treeFrom reads the edge of a tree of that size from its stored hashes and
// tells the root that they give.
func treeFrom(size int64, r tlog.HashReader) (tree, tlog.Hash, error) {
	t := tree{size: size}
	root, err := tlog.TreeHash(size, tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		list, err := r.ReadHashes(indexes)
		if err != nil {
			return nil, err
		}
		for i, index := range indexes {
			level, _ := tlog.SplitStoredHashIndex(index)
			t.edge[level] = list[i]
		}
		return list, nil
	}))
	return t, root, err
}

// stored are the hashes of a tree in memory, in the order of tlog.
type stored []tlog.Hash

var _ tlog.HashReader = stored(nil)

// ReadHashes fails for an index that is not stored.
func (s stored) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		if index < 0 || index >= int64(len(s)) {
			return nil, errNoHash
		}
		out[i] = s[index]
	}
	return out, nil
}
