"""Answers rendered for people: tables, sentences, stories, graphs."""
