"""Figures for notebooks, made of plain arrays and text.

Knows neither networks nor maps, so that relevance and models may use it.
"""
