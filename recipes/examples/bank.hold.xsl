<?xml version="1.0" encoding="utf-8"?>
<!-- The amount of a cheque is held, if its account covers it; the document says whether it is. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
                xmlns:n="http://www.logilab.org/namespaces/Narval/1.2" exclude-result-prefixes="n">
  <n:prototype>
    <n:input id="document" outdates="yes"><n:match>document[@account and @amount]</n:match></n:input>
    <n:input id="accounts" list="yes"><n:match>account[@number and @balance]</n:match></n:input>
    <n:input id="bookings" list="yes" optional="yes"><n:match>booking</n:match></n:input>
    <n:input id="holds" list="yes" optional="yes"><n:match>hold</n:match></n:input>
    <n:output id="document"><n:match>document[@held]</n:match></n:output>
    <n:output id="hold" optional="yes"><n:match>hold</n:match></n:output>
  </n:prototype>
  <xsl:template match="/elements">
    <xsl:variable name="own" select="document/@account"/>
    <xsl:variable name="booked" select="sum(booking[@account = $own]/@amount)"/>
    <xsl:variable name="held" select="sum(hold[@account = $own][not(@number = /elements/booking/@number)]/@amount)"/>
    <xsl:variable name="covers" select="account[@number = $own]/@balance + $booked - $held &gt;= document/@amount"/>
    <elements>
      <document held="no">
        <xsl:copy-of select="document/@*[name() != 'eid' and name() != 'held']"/>
        <xsl:if test="$covers"><xsl:attribute name="held">yes</xsl:attribute></xsl:if>
      </document>
      <xsl:if test="$covers">
        <hold account="{$own}" number="{document/@number}" amount="{document/@amount}"/>
      </xsl:if>
    </elements>
  </xsl:template>
</xsl:stylesheet>
