"""The checklist of the peer's suites (Karpenter v0.27.5) as behaviours, one test each, named by the rule.

The ids in docstrings (P1, S6, T45, I24, R2, ...) are those of our fact sheet of the peer's suites. Every plan passes
the auditor. Where the peer's outcome is a defect, the test asserts the better one and says so.

Not here, and why:
- P25, P34-P36: annotations, owner references and provider references are of the Node and the launch request
  (tests/core/lifecycle, tests/reconcilers, tests/aws).
- R5 (the length of a requirement), R8 and RR6 (its lossy export): our algebra has neither. Nothing asks for a length,
  and a plan hands over requirements whole.
- S-NB1's "the controller never sets nodeName": a plan has no such field; its second half is tested.
- T2's and the validation cases' invalid objects are refused by parsing (tests/core/api).
"""
