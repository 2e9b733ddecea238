package verify_test

import (
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/verify"
)

var nodeBase = files{
	"package.json": `{"name": "sum", "type": "module", "scripts": {"test": "node --test"}}`,
	"sum.js":       "export const add = (a, b) => a + b;\nexport const asked = () => true;\n",
	"test/sum.test.js": `import test, {describe, it} from 'node:test';
import assert from 'node:assert';
import {add, asked} from '../sum.js';
test('adds', () => assert.strictEqual(add(1, 2), 3));
describe('sums', () => {
  it('adds again', () => assert.strictEqual(add(2, 2), 4));
  it.skip('is slow', () => {});
  it('is asked', (t) => { if (!asked()) t.skip('not asked'); });
});
`,
	"test/other.test.cjs": "const test = require('node:test');\ntest('adds', () => {});\n",
}

// S-13: what the base's tests say of the work, by name.
func TestNodeTests(t *testing.T) {
	more := "export const add = (a, b) => a + b;\nexport const asked = () => true;\n"
	tryAll(t, "node", "tests-green", nodeBase, []trial{
		{name: "a change that breaks nothing", edits: files{"sum.js": more + "export const two = 2;\n"}},
		{name: "a change that breaks a test", edits: files{"sum.js": "export const add = (a, b) => a - b;\nexport const asked = () => true;\n"}, want: "sums > adds again failed"},
		{name: "a change that does not parse", edits: files{"sum.js": more + "export const two = ;\n"}, want: "adds again"},
		{name: "code that makes a test skip itself", edits: files{"sum.js": "export const add = (a, b) => a + b;\nexport const asked = () => false;\n"}, want: "is asked is skipped"},
		{name: "a test file that is deleted", edits: files{"test/sum.test.js": "-"}, want: "adds is no longer run"},
		{name: "a test that is renamed", edits: files{"test/other.test.cjs": "const test = require('node:test');\ntest('plus', () => {});\n"}, want: "other.test.cjs > adds is no longer run"},
		{name: "a test of the work's own that fails is a veto", edits: files{"test/more.test.js": "import test from 'node:test';\ntest('more', () => { throw new Error() });\n"}, want: "with the work's own tests, "},
		{name: "a test of the work's own does not count", edits: files{"test/more.test.js": "import test from 'node:test';\ntest('more', () => {});\n"},
			task: func(s *verify.Subject) { s.Task.TestCount = 5 }, want: "test-count-min is 5"},
	})
}

// S-13: code under test that lies about its tests.
func TestNodeAttacks(t *testing.T) {
	tryAll(t, "node", "tests-green", nodeBase, []trial{
		{name: "it ends well before any test", edits: files{"sum.js": "export const add = () => 0;\nexport const asked = () => true;\nprocess.exit(0);\n"}, want: "is no longer run"},
		{name: "it prints what a pass looks like, and ends", edits: files{"sum.js": "export const add = () => 0;\nexport const asked = () => true;\nconsole.log('TAP version 13\\nok 1 - adds\\n# Subtest: sums\\n    ok 1 - adds again\\nok 2 - sums\\n1..2');\nprocess.exit(0);\n"}, want: "is no longer run"},
		{name: "another script for the tests", edits: files{"package.json": `{"name": "sum", "type": "module", "scripts": {"pretest": "rm -r test", "test": "true"}}`, "sum.js": "export const add = () => 0;\nexport const asked = () => true;\n"}, want: "adds again failed"},
		{name: "a runner in node_modules", edits: files{"node_modules/.bin/node": "exec:#!/bin/sh\nexit 0\n", ".npmrc": "script-shell=/bin/true\n", "sum.js": "export const add = () => 0;\nexport const asked = () => true;\n"}, want: "adds again failed"},
		{name: "it hangs", edits: files{"sum.js": "export const add = () => { for (;;); };\nexport const asked = () => true;\n"}, want: "did not end", limit: 10 * time.Second},
		{name: "it kills its parent", edits: files{"sum.js": "export const add = () => 0;\nexport const asked = () => true;\nprocess.kill(process.ppid, 'SIGKILL');\n"}, want: "node tests"},
	})
	for name, manifest := range map[string]string{
		"a runner that is not known": `{"scripts": {"test": "make check"}}`,
		"a shell line":               `{"scripts": {"test": "node --test && true"}}`,
		"a manifest that is none":    `{"scripts": `,
	} {
		tryAll(t, "node", "tests-green", with(nodeBase, files{"package.json": manifest}), []trial{{name: name, edits: files{"sum.js": "\n"}, want: "package.json"}})
	}
	jest := with(nodeBase, files{"package.json": `{"scripts": {"test": "jest --coverage"}}`})
	tryAll(t, "node", "tests-green", jest, []trial{
		{name: "a runner that is not installed", edits: files{"sum.js": "\n"}, want: "jest is not installed"},
		{name: "one that the work brings along", edits: files{"node_modules/jest/bin/jest.js": "console.log('{}')\n"}, want: "jest is not installed"},
	})
}
