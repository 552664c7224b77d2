"""Who may do what: attributes of a request, the RBAC authorizer, access reviews."""
