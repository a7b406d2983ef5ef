<?xml version="1.0" encoding="utf-8"?>
<!-- What was held is free again. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
                xmlns:n="http://www.logilab.org/namespaces/Narval/1.2" exclude-result-prefixes="n">
  <n:prototype>
    <n:input id="hold" outdates="yes"><n:match>hold</n:match></n:input>
    <n:output id="released"><n:match>released</n:match></n:output>
  </n:prototype>
  <xsl:template match="/hold">
    <released account="{@account}" number="{@number}" amount="{@amount}"/>
  </xsl:template>
</xsl:stylesheet>
