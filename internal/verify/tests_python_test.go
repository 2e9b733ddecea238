package verify_test

import (
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/verify"
)

var pythonBase = files{
	"pyproject.toml": "[project]\nname = \"total\"\nversion = \"1\"\n",
	"total.py":       "def add(a, b):\n    return a + b\n\n\ndef asked():\n    return True\n",
	"tests/test_total.py": `import unittest

import total


class Total(unittest.TestCase):
    def test_add(self):
        self.assertEqual(total.add(1, 2), 3)

    def test_many(self):
        for n in range(3):
            with self.subTest(n=n):
                self.assertEqual(total.add(n, 0), n)

    @unittest.skip("slow")
    def test_slow(self):
        pass

    def test_asked(self):
        if not total.asked():
            self.skipTest("not asked")
`,
	"pkg/__init__.py":          "",
	"pkg/test_total.py":        "import unittest\n\n\nclass Again(unittest.TestCase):\n    def test_same_file_name(self):\n        pass\n",
	"tests/test_helper.py":     "import helper_of_tests\n",
	"tests/helper_of_tests.py": "x = 1\n",
}

const pythonAdd = "def add(a, b):\n    return a + b\n\n\ndef asked():\n    return True\n"

// S-13: what the base's tests say of the work, by name.
func TestPythonTests(t *testing.T) {
	tryAll(t, "python3", "tests-green", pythonBase, []trial{
		{name: "a change that breaks nothing", edits: files{"total.py": pythonAdd + "\n\ndef two():\n    return 2\n"}},
		{name: "a change that breaks a test", edits: files{"total.py": "def add(a, b):\n    return a - b\n\n\ndef asked():\n    return True\n"}, want: "Total.test_add failed"},
		{name: "a change that breaks a part of a test", edits: files{"total.py": "def add(a, b):\n    return 3 if b == 2 else a + b + (a == 1)\n\n\ndef asked():\n    return True\n"}, want: "Total.test_many failed"},
		{name: "a change that does not parse", edits: files{"total.py": pythonAdd + "def\n"}, want: "SyntaxError"},
		{name: "code that makes a test skip itself", edits: files{"total.py": "def add(a, b):\n    return a + b\n\n\ndef asked():\n    return False\n"}, want: "test_asked is skipped"},
		{name: "a test file that is deleted", edits: files{"tests/test_total.py": "-"}, want: "test_add is no longer run"},
		{name: "a test that is renamed", edits: files{"pkg/test_total.py": "import unittest\n\n\nclass Again(unittest.TestCase):\n    def test_other(self):\n        pass\n"}, want: "test_same_file_name is no longer run"},
		{name: "a test of the work's own that fails is a veto", edits: files{"tests/test_more.py": "import unittest\n\n\nclass More(unittest.TestCase):\n    def test_more(self):\n        self.fail()\n"}, want: "with the work's own tests, "},
		{name: "a test of the work's own does not count", edits: files{"tests/test_more.py": "import unittest\n\n\nclass More(unittest.TestCase):\n    def test_more(self):\n        pass\n"},
			task: func(s *verify.Subject) { s.Task.TestCount = 5 }, want: "test-count-min is 5"},
	})
}

// S-13: code under test that lies about its tests.
func TestPythonAttacks(t *testing.T) {
	wrong := "def add(a, b):\n    return 0\n\n\ndef asked():\n    return True\n"
	tryAll(t, "python3", "tests-green", pythonBase, []trial{
		{name: "it ends well before any test", edits: files{"total.py": "import os\nos._exit(0)\n"}, want: "is no longer run"},
		{name: "it leaves while it is loaded", edits: files{"total.py": "import sys\nsys.exit(0)\n"}, want: "test_add is no longer run"},
		{name: "it prints what a pass looks like, and ends", edits: files{"total.py": "import os\nprint('test_add (tests.test_total.Total) ... ok', flush=True)\nos._exit(0)\n"}, want: "is no longer run"},
		{name: "it replaces the runner's own module", edits: files{"unittest.py": "raise SystemExit(0)\n", "json.py": "raise SystemExit(0)\n", "total.py": wrong}, want: "test_add failed"},
		{name: "a customisation of the interpreter", edits: files{"sitecustomize.py": "import os\nos._exit(0)\n", "usercustomize.py": "import os\nos._exit(0)\n", "total.py": wrong}, want: "test_add failed"},
		{name: "a configuration of the tests", edits: files{"tests/conftest.py": "raise SystemExit(0)\n", "pytest.ini": "[pytest]\naddopts = -p evil\n", "total.py": wrong}, want: "test_add failed"},
		{name: "it turns assertions off", edits: files{"total.py": wrong + "\n\nimport unittest\nunittest.TestCase.assertEqual = lambda *a: None\nunittest.TestCase.fail = lambda *a: None\n"}, want: "host's own test"},
		{name: "it hangs", edits: files{"total.py": "while True:\n    pass\n"}, want: "did not end", limit: 8 * time.Second},
		{name: "it kills its parent", edits: files{"total.py": "import os\nos.kill(os.getpid(), 9)\n"}, want: "python tests"},
		{name: "a process that outlives it", edits: files{"total.py": pythonAdd + "\n\nimport subprocess\nsubprocess.Popen(['sleep', '600'])\n"}, limit: 30 * time.Second},
	})
	asked := with(pythonBase, files{"pytest.ini": "[pytest]\n"})
	tryAll(t, "python3", "tests-green", asked, []trial{
		{name: "a runner that the work brings along", edits: files{"pytest.py": "def main(*a, **k):\n    return 0\n", "total.py": wrong}, want: "python tests"},
	})
}
