<?xml version="1.0" encoding="utf-8"?>
<!-- The items as a draft to whom the topic names, a line for each. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
                xmlns:n="http://www.logilab.org/namespaces/Narval/1.2" exclude-result-prefixes="n">
  <n:prototype>
    <n:input id="topic"><n:match>topic[@name and @to]</n:match></n:input>
    <n:input id="items" list="yes" optional="yes"><n:match>item[@feed]</n:match></n:input>
    <n:output id="draft" optional="yes"><n:match>draft</n:match></n:output>
  </n:prototype>
  <xsl:template match="/elements[item]">
    <draft to="{topic/@to}" subject="{topic/@name}: {count(item)} new" auto="auto-generated">
      <xsl:for-each select="item">
        <xsl:value-of select="concat(@title, ' ', @link, '&#10;')"/>
      </xsl:for-each>
    </draft>
  </xsl:template>
</xsl:stylesheet>
