"""Reading of definitions: XML with places, grammars, expressions, declarations in modules."""
