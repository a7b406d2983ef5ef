<?xml version="1.0" encoding="utf-8"?>
<!-- A folder is booked: its cheques are debited, if they are of this bank, and its slips are credited. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
                xmlns:n="http://www.logilab.org/namespaces/Narval/1.2" exclude-result-prefixes="n">
  <n:prototype>
    <n:input id="folder"><n:match>folder</n:match></n:input>
    <n:output id="bookings" list="yes" optional="yes"><n:match>booking</n:match></n:output>
  </n:prototype>
  <xsl:template match="/folder">
    <elements>
      <xsl:for-each select="document[@kind = 'cheque'][@bank = 'ours']">
        <booking account="{@account}" number="{@number}" amount="{-@amount}"/>
      </xsl:for-each>
      <xsl:for-each select="document[@kind = 'slip']">
        <booking account="{@account}" number="{@number}" amount="{@amount}"/>
      </xsl:for-each>
    </elements>
  </xsl:template>
</xsl:stylesheet>
