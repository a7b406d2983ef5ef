<?xml version="1.0" encoding="utf-8"?>
<!-- The data of a document that was scanned: each of its lines becomes an attribute. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
                xmlns:n="http://www.logilab.org/namespaces/Narval/1.2" exclude-result-prefixes="n">
  <n:prototype>
    <n:input id="scanned" outdates="yes"><n:match>document[line]</n:match></n:input>
    <n:output id="document"><n:match>document[@kind and @number and @account and @amount]</n:match></n:output>
  </n:prototype>
  <xsl:template match="/document">
    <document>
      <xsl:for-each select="line">
        <xsl:attribute name="{@name}"><xsl:value-of select="."/></xsl:attribute>
      </xsl:for-each>
    </document>
  </xsl:template>
</xsl:stylesheet>
