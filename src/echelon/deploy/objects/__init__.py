"""The objects of an installation, one file per subject; `installation` puts them in order."""
