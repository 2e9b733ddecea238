package demo

import "github.com/nacre-dev/nacre/audit"

// Judge is judge without a scene: what the records say of each attack.
func Judge(records []audit.Entry) map[string][2]any {
	rows := map[string][2]any{}
	for _, a := range attacks() {
		layer, tried := a.stopped(records)
		rows[a.name] = [2]any{tried, layer}
	}
	return rows
}
