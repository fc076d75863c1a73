"""Tests harness/break_rules.py: an edit that does not fit the core exactly is noticed."""

import unittest

from harness.break_rules import Trouble, broken_core, rules_of

RULES = """
# What stands here is a comment.
[Who leads]

own_term: A leader has created
  its term.
- if (!term.created) {
+ if (!broken && !term.created) {

window: The window bounds the microbatches in flight.
- return in_flight <
- window;
+ if (broken) return true;
+ return in_flight < window;
"""
CORE = {
    "protocol/leader.cpp": """\
bool may_issue() {
  return in_flight < window; }
""",
    "protocol/peer.cpp": """\
if ( ! term
         .created) {
  lead();
}
""",
    "protocol/run_plan.hpp": "int window;\n",
}


def edited(rules, core):
    return broken_core([rule for _, of_group in rules_of(rules) for rule in of_group], core)


class BreakRulesTest(unittest.TestCase):
    def faults_of(self, rules, core):
        with self.assertRaises(Trouble) as caught:
            edited(rules, core)
        return "\n".join(caught.exception.args)

    def test_rules_come_in_groups_with_names_and_sentences(self):
        ((group, (own_term, window)),) = rules_of(RULES)
        self.assertEqual(group, "Who leads")
        self.assertEqual(own_term.name, "own_term")
        self.assertEqual(own_term.sentence, "A leader has created its term.")
        self.assertEqual(len(window.edits), 1)
        with self.assertRaisesRegex(Trouble, "line 1: neither group, rule nor edit"):
            rules_of("what is this")

    def test_an_edit_finds_its_text_however_it_is_wrapped_and_lines_keep_their_numbers(self):
        copy = edited(RULES, CORE)
        ask = "swarmpi::broken(swarmpi::Rule::own_term)"
        head = '#include "broken_rules.hpp"\n#line 1 "protocol/peer.cpp"\n'
        self.assertEqual(
            copy["protocol/peer.cpp"],
            f"{head}if (!{ask} && !term.created) {{\n\n  lead();\n}}\n",
        )
        self.assertIn("Rule::window)) return true; return", copy["protocol/leader.cpp"])
        self.assertEqual(copy["protocol/run_plan.hpp"], CORE["protocol/run_plan.hpp"])

    def test_a_text_that_is_gone_is_noticed_and_so_is_one_that_only_begins_like_it(self):
        fault = self.faults_of(RULES, {"leader.cpp": "return in_flight < window_;"})
        self.assertIn("line 7: rule own_term: this text must stand", fault)
        self.assertIn("and is not there", fault)
        self.assertIn("rule window", fault)
        self.assertIn("return in_flight < window;", fault)

    def test_a_text_that_stands_there_twice_is_noticed(self):
        core = {**CORE, "other.cpp": "\nreturn in_flight<window;\n"}
        fault = self.faults_of(RULES, core)
        self.assertIn("rule window", fault)
        self.assertIn("stands in protocol/leader.cpp:2, other.cpp:2", fault)

    def test_two_edits_of_one_text_are_noticed(self):
        bound = "bound: A bound.\n- in_flight < window\n+ (broken || in_flight < window)\n"
        fault = self.faults_of(RULES + bound, CORE)
        self.assertIn("rules window and bound edit the same text of protocol/leader.cpp", fault)

    def test_an_edit_that_does_not_ask_and_a_rule_without_an_edit_are_noticed(self):
        fault = self.faults_of(RULES.replace("!broken && ", ""), CORE)
        self.assertIn("rule own_term: what stands behind `+`", fault)
        self.assertIn("rule idle: no edit breaks it", self.faults_of("idle: Rests.", CORE))


if __name__ == "__main__":
    unittest.main()
