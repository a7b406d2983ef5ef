<?xml version="1.0" encoding="utf-8"?>
<!-- The mails as a draft, a line for each. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
                xmlns:n="http://www.logilab.org/namespaces/Narval/1.2" exclude-result-prefixes="n">
  <n:prototype>
    <n:input id="mails" list="yes"><n:match>email[not(@kind)]</n:match></n:input>
    <n:output id="draft"><n:match>draft</n:match></n:output>
  </n:prototype>
  <xsl:template match="/">
    <draft to="you@example.org" subject="New mails: {count(//email)}" auto="auto-generated">
      <xsl:for-each select="//email">
        <xsl:value-of select="concat(@from, ': ', @subject, '&#10;')"/>
      </xsl:for-each>
    </draft>
  </xsl:template>
</xsl:stylesheet>
