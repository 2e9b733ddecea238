package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// component is a part of a bill of materials, by CycloneDX 1.6.
type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Purl    string `json:"purl,omitempty"`
}

// materials writes what the product's program is made of, by what the Go linker wrote into it.
func (p product) materials() error {
	info, err := buildinfo.ReadFile(p.program)
	if err != nil {
		return err
	}
	parts := []component{{"library", "std", "std", strings.TrimPrefix(info.GoVersion, "go"), "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}}
	for _, m := range info.Deps {
		version := m.Version
		if m.Replace != nil { // by a folder of the project: nothing else is replaced
			version = p.version
		}
		purl := "pkg:golang/" + m.Path + "@" + version
		parts = append(parts, component{"library", purl, m.Path, version, purl})
	}
	slices.SortFunc(parts, func(a, b component) int { return cmp.Compare(a.Ref, b.Ref) })
	bill := map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata": map[string]any{
			"timestamp": p.made.Format(time.RFC3339),
			"component": component{Type: "application", Ref: p.title, Name: p.title, Version: p.version},
		},
		"components": parts,
	}
	data, err := json.MarshalIndent(bill, "", "  ")
	if err != nil {
		return err
	}
	if err := p.conforms(data); err != nil {
		return fmt.Errorf("the bill of materials: %w", err)
	}
	return write(filepath.Join(p.out, p.name(".cdx.json")), string(data)+"\n")
}

// sorted orders files by where they are installed.
func sorted(list []file) []file {
	slices.SortFunc(list, func(a, b file) int { return cmp.Compare(a.to, b.to) })
	return list
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// installer copies the script, with the version that it installs.
func (b build) installer() error {
	script, err := readFile(filepath.Join(b.root, "tools/release/install.sh"))
	if err != nil {
		return err
	}
	const unset = "version=${NACRE_VERSION:-}\n"
	if !strings.Contains(script, unset) {
		return fmt.Errorf("install.sh has no line %q", unset)
	}
	script = strings.Replace(script, unset, "version=${NACRE_VERSION:-"+strings.TrimPrefix(b.version, "v")+"}\n", 1)
	return write(filepath.Join(b.out, "install.sh"), script)
}
