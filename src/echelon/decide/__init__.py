"""Controller decisions as pure functions: (desired, observed, now) -> Plan, one policy per file."""
