"""Server-side apply: which manager owns which field, and what an applied configuration makes of the live object."""
