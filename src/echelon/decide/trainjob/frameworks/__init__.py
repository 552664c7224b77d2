"""ML policies of runtimes: what each framework's processes need to find each other.  Enter by `policies.apply`."""
