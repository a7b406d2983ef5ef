<?xml version="1.0" encoding="utf-8"?>
<!-- What a client called, as the element that starts it. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
                xmlns:n="http://www.logilab.org/namespaces/Narval/1.2" exclude-result-prefixes="n">
  <n:prototype>
    <n:input id="call"><n:match>tool-call[@recipe]</n:match></n:input>
    <n:output id="start"><n:match>start-plan</n:match></n:output>
  </n:prototype>
  <xsl:template match="/">
    <start-plan recipe="{//tool-call/@recipe}"><xsl:copy-of select="//tool-call/*"/></start-plan>
  </xsl:template>
</xsl:stylesheet>
