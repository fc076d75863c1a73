#!/usr/bin/env python3
"""Tests generated_docs.py and generated_blocks.py: what is stale or missing is noticed."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

import generated_blocks as sources
import generated_docs as docs

PAGE = "# A page\n\n<!-- generated: names -->\n\nold\n\n<!-- /generated -->\n\nProse stays.\n"
RULES = """
[Who leads]

own_term: A leader has created its term.
- if (!created)
+ if (!broken && !created)

window: A sentence that is
  continued.
- if (full)
+ if (!broken && full)
"""
REFERENCE = """The deck.

[swarm]
  stages = 2                      an integer >= 1 and <= 8, stages
      how many [*]
  method = "swarm"                one of "swarm", "gpipe"
      how work is laid out [this version: only "swarm"]
  event                           one of "kill", "join", "flip"; must be given
      what happens [this version: only "kill" "flip"] [*]

[[peers]]  any number of times: which peers
  peers = []                      a list of integers
      their ids
"""


class Tree(unittest.TestCase):
    """A project of a few files, in a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="swarmpi-docs-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("CMakeLists.txt", "project(swarmpi VERSION 1.2.3 LANGUAGES CXX)\n")
        self.write("CITATION.cff", "version: 1.2.3\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def renew(self, write=False, made="new"):
        blocks = {"names": ("docs/page.md", lambda root: made + "\n")}
        with contextlib.redirect_stdout(io.StringIO()):
            return docs.renew(self.root, write, blocks)


class Pages(Tree):
    def test_a_stale_block_is_noticed_with_its_line_and_the_way_to_renew_it(self):
        self.write("docs/page.md", PAGE)
        (wrong,) = self.renew()
        for words in ("docs/page.md:5:", "`names` is stale", docs.RENEW, "old", "new"):
            self.assertIn(words, wrong)

    def test_a_block_that_was_written_is_not_stale_and_prose_stays(self):
        self.write("docs/page.md", PAGE)
        self.assertEqual(self.renew(write=True), [])
        self.assertEqual(self.renew(), [])
        text = (self.root / "docs/page.md").read_text(encoding="utf-8")
        self.assertEqual(text, PAGE.replace("old", "new"))

    def test_a_line_that_is_missing_at_the_end_is_noticed(self):
        self.write("docs/page.md", PAGE.replace("old", "new"))
        self.assertIn("should be: more", self.renew(made="new\nmore")[0])

    def test_a_missing_marker_is_noticed(self):
        self.write("docs/page.md", "# A page\n")
        self.assertIn("block `names` is missing", self.renew()[0])
        self.assertIn("block `names` is missing", self.renew(write=True)[0])

    def test_a_missing_page_is_noticed(self):
        self.assertIn("docs/page.md: No such file", self.renew()[0])

    def test_a_block_that_is_not_closed_is_noticed_and_the_page_left_alone(self):
        text = PAGE.replace(docs.CLOSE, "")
        self.write("docs/page.md", text)
        self.assertIn("is not closed", self.renew(write=True)[0])
        self.assertEqual((self.root / "docs/page.md").read_text(encoding="utf-8"), text)

    def test_a_block_that_nobody_makes_is_noticed(self):
        self.write("docs/page.md", PAGE)
        self.write("docs/other.md", PAGE)
        self.assertTrue(any("docs/other.md: no block" in wrong for wrong in self.renew()))

    def test_markers_in_examples_are_no_blocks(self):
        example = "```\n<!-- generated: other -->\n```\n"
        self.write("docs/page.md", example + PAGE.replace("old", "new"))
        self.assertEqual(self.renew(), [])

    def test_the_version_to_cite_is_that_of_the_project(self):
        self.write("docs/page.md", PAGE.replace("old", "new"))
        self.write("CITATION.cff", "version: 1.2.2\n")
        self.assertIn("1.2.3", self.renew()[0])


class Sources(Tree):
    def mutations(self, known, record):
        self.write(sources.RULES, RULES)
        self.write(sources.KNOWN, known)
        origin = {"tool": "tool", "date": "2026-01-01", "commit": "c", "cpu": "one", "cores": 2}
        record = {**origin, "figures": {"rules": record}}
        self.write(f"{sources.RECORDS}/mutations.json", json.dumps(record))
        return sources.mutations(self.root)

    def test_rules_records_and_known_schedules_are_joined(self):
        record = {"own_term": {"schedules": 1234, "failure": "it stalls"}, "window": {}}
        shown = self.mutations("# why\nown_term 17\nwindow Suite.Test\n", record)
        self.assertIn("| **Who leads** |", shown)
        self.assertIn("| A leader has created its term (`own_term`) | 1,234 | it stalls |", shown)
        self.assertIn("A sentence that is continued (`window`) | - | test `Suite.Test` |", shown)

    def test_a_rule_without_record_or_known_schedule_is_noticed(self):
        record = {"own_term": {"schedules": 1, "failure": "it stalls"}}
        with self.assertRaisesRegex(sources.Trouble, "no record of rule window"):
            self.mutations("own_term 17\nwindow Suite.Test\n", record)
        with self.assertRaisesRegex(sources.Trouble, "no schedule or test for rule window"):
            self.mutations("own_term 17\n", {**record, "window": {}})

    def test_what_is_known_of_a_rule_that_is_gone_is_noticed(self):
        record = {"own_term": {"schedules": 1, "failure": "it stalls"}, "window": {}}
        with self.assertRaisesRegex(sources.Trouble, "older is no rule"):
            self.mutations("own_term 17\nwindow Suite.Test\nolder 3\n", record)

    def test_the_reference_is_taken_apart(self):
        sections = sources.parsed_reference(REFERENCE)
        self.assertEqual([header for header, _, _ in sections], ["[swarm]", "[[peers]]"])
        stages, method, event = sections[0][2]
        self.assertEqual((stages["default"], stages["resumes"]), ("2", True))
        self.assertEqual(stages["takes"], "an integer >= 1 and <= 8, stages")
        self.assertTrue(method["later"])
        self.assertEqual((event["default"], event["later"]), (None, False))
        self.assertEqual(event["values"], ['"kill"', '"flip"'])

    def test_a_line_of_the_reference_that_is_not_understood_is_noticed(self):
        with self.assertRaisesRegex(sources.Trouble, "does not understand: what is this"):
            sources.parsed_reference(REFERENCE + "what is this\n")

    def test_a_figure_that_no_record_has_is_noticed(self):
        row = {"what": "w", "figure": "{speed}", "command": "c", "section": sources.SECTIONS[0]}
        with self.assertRaisesRegex(sources.Trouble, "has no figure 'speed'"):
            sources.rows_of({"a.json": {"figures": {}, "rows": [row]}})
        (shown,) = sources.rows_of({"a.json": {"figures": {"speed": 7}, "rows": [row]}})
        self.assertEqual(shown["figure"], "7")


if __name__ == "__main__":
    unittest.main()
