"""Why a demand is blocked, what would fix it, and the words for both."""
