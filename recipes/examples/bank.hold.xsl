<?xml version="1.0" encoding="utf-8"?>
<!-- The amount of a cheque is held on its account, if that covers it; the document says whether it is. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
                xmlns:n="http://www.logilab.org/namespaces/Narval/1.2" exclude-result-prefixes="n">
  <n:prototype>
    <n:input id="document" outdates="yes"><n:match>document</n:match></n:input>
    <n:input id="accounts" list="yes" outdates="yes"><n:match>account[@number and @balance and @held]</n:match></n:input>
    <n:output id="document"><n:match>document[@held]</n:match></n:output>
    <n:output id="accounts" list="yes"><n:match>account</n:match></n:output>
  </n:prototype>
  <xsl:variable name="cheque" select="/elements/document"/>
  <xsl:variable name="own" select="/elements/account[@number = $cheque/@account]"/>
  <xsl:variable name="covers" select="$own/@balance - $own/@held &gt;= $cheque/@amount"/>
  <xsl:template match="/elements">
    <elements><xsl:apply-templates/></elements>
  </xsl:template>
  <xsl:template match="document">
    <document held="no">
      <xsl:copy-of select="@*[name() != 'eid' and name() != 'held']"/>
      <xsl:if test="$covers"><xsl:attribute name="held">yes</xsl:attribute></xsl:if>
      <xsl:copy-of select="node()"/>
    </document>
  </xsl:template>
  <xsl:template match="account">
    <account>
      <xsl:copy-of select="@*[name() != 'eid']"/>
      <xsl:if test="$covers and @number = $cheque/@account">
        <xsl:attribute name="held"><xsl:value-of select="@held + $cheque/@amount"/></xsl:attribute>
      </xsl:if>
    </account>
  </xsl:template>
</xsl:stylesheet>
