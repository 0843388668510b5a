"""Figures for notebooks, made of plain arrays and text; knows neither networks nor maps."""
