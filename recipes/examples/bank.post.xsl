<?xml version="1.0" encoding="utf-8"?>
<!-- A folder is booked: what was held for its cheques is paid, and its slips are credited. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
                xmlns:n="http://www.logilab.org/namespaces/Narval/1.2" exclude-result-prefixes="n">
  <n:prototype>
    <n:input id="folder"><n:match>folder</n:match></n:input>
    <n:input id="accounts" list="yes" outdates="yes"><n:match>account[@number and @balance and @held]</n:match></n:input>
    <n:output id="accounts" list="yes"><n:match>account</n:match></n:output>
  </n:prototype>
  <xsl:template match="/elements">
    <elements><xsl:apply-templates select="account"/></elements>
  </xsl:template>
  <xsl:template match="account">
    <xsl:variable name="documents" select="/elements/folder/document[@account = current()/@number]"/>
    <xsl:variable name="paid" select="sum($documents[@kind = 'cheque'][@bank = 'ours']/@amount)"/>
    <account balance="{@balance - $paid + sum($documents[@kind = 'slip']/@amount)}" held="{@held - $paid}">
      <xsl:copy-of select="@*[name() != 'eid' and name() != 'balance' and name() != 'held']"/>
    </account>
  </xsl:template>
</xsl:stylesheet>
