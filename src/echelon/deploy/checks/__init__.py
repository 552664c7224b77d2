"""What `echelon doctor` finds: evidence in, findings with remedies out."""
