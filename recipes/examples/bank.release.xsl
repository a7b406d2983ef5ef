<?xml version="1.0" encoding="utf-8"?>
<!-- What is held for a cheque is free again. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
                xmlns:n="http://www.logilab.org/namespaces/Narval/1.2" exclude-result-prefixes="n">
  <n:prototype>
    <n:input id="document"><n:match>document[@held]</n:match></n:input>
    <n:input id="accounts" list="yes" outdates="yes"><n:match>account[@number and @balance and @held]</n:match></n:input>
    <n:output id="accounts" list="yes"><n:match>account</n:match></n:output>
  </n:prototype>
  <xsl:variable name="cheque" select="/elements/document"/>
  <xsl:template match="/elements">
    <elements><xsl:apply-templates select="account"/></elements>
  </xsl:template>
  <xsl:template match="account">
    <account>
      <xsl:copy-of select="@*[name() != 'eid']"/>
      <xsl:if test="@number = $cheque/@account and $cheque/@held = 'yes'">
        <xsl:attribute name="held"><xsl:value-of select="@held - $cheque/@amount"/></xsl:attribute>
      </xsl:if>
    </account>
  </xsl:template>
</xsl:stylesheet>
