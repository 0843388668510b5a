"""Teaching a network things of one's own: a lesson, who gives it live, what was learnt."""
