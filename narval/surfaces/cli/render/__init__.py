"""Answers written for people: tables, sentences, stories, graphs."""
