package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	_ "github.com/CycloneDX/cyclonedx-go" // brings the schemas, as files
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemas are where CycloneDX's refer to one another.
const schemas = "http://cyclonedx.org/schema/"

// conforms holds a bill of materials against the schema of CycloneDX 1.6.
func (b build) conforms(bill []byte) error {
	folder, err := b.said("go", "-C", filepath.Join(b.root, "tools/release"), "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go")
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	for name, file := range map[string]string{
		"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		data, err := os.ReadFile(filepath.Join(folder, "schema", file))
		if err != nil {
			return err
		}
		schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := compiler.AddResource(schemas+name, schema); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	schema, err := compiler.Compile(schemas + "bom-1.6.schema.json")
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(bill))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}
