"""Who a caller is: tokens of the administrator, of users and of service accounts; client certificates."""
