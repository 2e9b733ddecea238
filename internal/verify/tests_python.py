# Runs a project's tests and prints one line for each: the nonce and JSON.
# Everything of the standard library that is needed is imported before the
# project's folder is on the path.
import importlib
import importlib.util
import json
import os
import sys
import traceback
import unittest

MODE, NONCE, FILES = sys.argv[1], sys.argv[2], sys.argv[3:]
OUT = os.dup(1)


def say(name, status, text="", kind=""):
    line = json.dumps({"kind": kind, "name": str(name), "status": status, "text": str(text)[-2000:]})
    os.write(OUT, ("\n" + NONCE + " " + line + "\n").encode())


def load(file):
    """A test file as a module: by its package where it is in one."""
    folder, stem = os.path.split(file[:-3])
    parts = folder.split(os.sep) if folder else []
    packaged = all(os.path.exists(os.path.join(*parts[: i + 1], "__init__.py")) for i in range(len(parts)))
    if packaged:
        return importlib.import_module(".".join(parts + [stem]))
    top = os.path.abspath(folder)
    if top not in sys.path:
        sys.path.insert(1, top)
    known = sys.modules.get(stem)
    if known is None:
        return importlib.import_module(stem)
    if getattr(known, "__file__", None) == os.path.abspath(file):
        return known
    name = file[:-3].replace(os.sep, "__")
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Reporter(unittest.TestResult):
    """Reports each test once, when it stops."""

    def startTest(self, test):
        super().startTest(test)
        self.ended, self.text = "failed", ""

    def stopTest(self, test):
        say(test.id(), self.ended, self.text)
        super().stopTest(test)

    def note(self, status, text=""):
        self.ended, self.text = status, text

    def addSuccess(self, test):
        super().addSuccess(test)
        if self.text == "":
            self.note("passed")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note("failed", self._exc_info_to_string(err, test))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if not hasattr(test, "_testMethodName"):
            say(test.id(), "skipped", reason)
        self.note("skipped", "skipped")

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.note("passed")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note("failed", "it passed and was expected to fail")

    def wrong(self, test, err):
        text = self._exc_info_to_string(err, test)
        if not hasattr(test, "_testMethodName"):  # a class or a module could not be set up
            say(test.id(), "failed", text)
        self.note("failed", text)

    def addError(self, test, err):
        super().addError(test, err)
        self.wrong(test, err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.wrong(test, err)


def by_unittest():
    suite, broken = unittest.TestSuite(), False
    for file in FILES:
        try:
            suite.addTests(unittest.defaultTestLoader.loadTestsFromModule(load(file)))
        except unittest.SkipTest as skip:
            say(file, "skipped", skip)
        except BaseException:
            broken = True
            say(file, "failed", traceback.format_exc())
    result = Reporter()
    suite.run(result)
    return 0 if result.wasSuccessful() and not broken else 1


class Plugin:
    def __init__(self):
        self.ended = {}

    def pytest_runtest_logreport(self, report):
        name, was = report.nodeid, self.ended.get(report.nodeid)
        if report.failed:
            self.ended[name] = ("failed", report.longreprtext)
        elif report.skipped and was is None:
            self.ended[name] = ("passed" if hasattr(report, "wasxfail") else "skipped", "")
        elif report.when == "call" and was is None:
            self.ended[name] = ("passed", "")
        if report.when == "teardown":
            say(name, *self.ended.get(name, ("failed", "it was not run")))

    def pytest_collectreport(self, report):
        if report.failed:
            say(report.nodeid, "failed", report.longreprtext)


def by_pytest():
    try:
        import pytest
    except ImportError:
        say("", "", "pytest is not installed in the sandbox: nothing can be judged without it\n", "build")
        return 3
    sys.path.insert(0, os.getcwd())
    return int(pytest.main(["-q", "-p", "no:cacheprovider"], plugins=[Plugin()]))


if MODE == "pytest":
    code = by_pytest()
else:
    sys.argv = ["unittest"]
    sys.path.insert(0, os.getcwd())
    if os.path.isdir("src"):
        sys.path.insert(1, os.path.abspath("src"))
    code = by_unittest()
sys.exit(code)
