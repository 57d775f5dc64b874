"""The rules of Karpenter v0.27.5's test suites as behaviours, one test each, named by the rule.

Every plan passes the auditor. Where Karpenter's outcome is a defect, the test asserts the better one and says so.

Not here, and why:
- Annotations, owner references and provider references are of the Node and the launch request
  (tests/core/machines, tests/reconcilers, tests/aws).
- The length of a requirement and its lossy export: our algebra has neither. Nothing asks for a length, and a plan hands
  over requirements whole.
- "The controller never sets nodeName": a plan has no such field.
- The validation cases' invalid objects are refused by parsing (tests/core/api).
"""
