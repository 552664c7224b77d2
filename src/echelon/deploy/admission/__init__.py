"""Rules and defaults of JobSet and the Trainer kinds as admission policies, which a server applies with no pod of ours.

`api/rules` says what holds; here the same is said in CEL, one file per kind; `admission_policies` makes the objects.
"""
