<?xml version="1.0" encoding="utf-8"?>
<!-- The PDFs of a mail, each as a file, with the day of the mail. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
                xmlns:n="http://www.logilab.org/namespaces/Narval/1.2" exclude-result-prefixes="n">
  <n:prototype>
    <n:input id="mail"><n:match>email[attachment]</n:match></n:input>
    <n:output id="files" list="yes"><n:match>file[@path]</n:match></n:output>
  </n:prototype>
  <xsl:template match="/">
    <elements>
      <xsl:for-each select="//email/attachment[@type='application/pdf' and @file]">
        <file path="{@file}" name="{@name}" date="{substring(../@date, 1, 10)}"/>
      </xsl:for-each>
    </elements>
  </xsl:template>
</xsl:stylesheet>
