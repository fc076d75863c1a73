"""Finds in the sources why tests may be skipped, and which are switched off, before any is run.

A reason is a pair: its text, and whether that is all of it. Else the text is what the reason begins
with, and only a run can tell the rest; "" where it can tell nothing.
"""

import ast
import re

SKIPPING = ("skip", "skipIf", "skipUnless", "skipTest", "SkipTest")
MARK = "not run: "
OF_GOOGLE = re.compile(r'GTEST_SKIP\(\)(?:\s*<<\s*"([^"]*)"\s*(;?))?')
OF_SCRIPTS = re.compile(rf'"{MARK}([^"$]*)("?)')
TEST = re.compile(r"\b(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\s*\)")
INSTANCE = re.compile(r"\bINSTANTIATE_\w+\(\s*(\w+),\s*(\w+)")
OFF = "DISABLED_"


def switched_off(text):
    """The names of GoogleTest's DISABLED_ tests, and of instances of suites, without that word."""
    tests = {f"{suite}.{test}" for suite, test in TEST.findall(text)}
    instances = {f"{name}/{suite}" for name, suite in INSTANCE.findall(text)}
    return {name.replace(OFF, "") for name in tests | instances if OFF in name}


def of_google(text):
    for reason, end in OF_GOOGLE.findall(text):
        yield reason, bool(end)


def of_scripts(text):
    for reason, end in OF_SCRIPTS.findall(text):
        yield reason, bool(end)


def called(node):
    """The last name of what a call calls; "" of anything else."""
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "attr", None) or getattr(node.func, "id", "")


def texts_of(node):
    """The texts that an expression may have, as reasons."""
    if isinstance(node, ast.Constant):
        return [(node.value, True)] if node.value else []
    if isinstance(node, ast.JoinedStr):
        return [(first, False) for first, _ in texts_of(node.values[0]) or [("", False)]]
    if isinstance(node, ast.BinOp):
        return [(first, False) for first, _ in texts_of(node.left)]
    if isinstance(node, ast.IfExp):
        return texts_of(node.body) + texts_of(node.orelse)
    if isinstance(node, ast.BoolOp):
        return [text for value in node.values for text in texts_of(value)]
    return [] if called(node) == "missing" else [("", False)]  # what it returns is found there


def marked(node):
    """The reason in a text that begins with the mark, which is printed."""
    if called(node) == "print" and node.args:
        for text, whole in texts_of(node.args[0]):
            if text.startswith(MARK):
                yield text[len(MARK) :], whole


def of_python(text):
    for node in ast.walk(ast.parse(text)):
        if called(node) in SKIPPING:
            yield from texts_of(node.args[-1])
        yield from marked(node)
        if isinstance(node, ast.FunctionDef) and node.name == "missing":
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return):
                    yield from texts_of(inner.value)


REASONS_IN = {".cpp": of_google, ".hpp": of_google, ".py": of_python, ".sh": of_scripts}
