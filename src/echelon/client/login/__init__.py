"""What requests log in with: files that change, or the command of a kubeconfig."""
