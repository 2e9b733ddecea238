//go:build !linux

package hugepage
