"""From a demand to `Placed`: what to try in which order, extras, preferences, the objective and its bound."""
