<?xml version="1.0" encoding="utf-8"?>
<!--
  The transform digest.page: what came in, as one page that can be read anywhere, at any time.

  The page says only what the elements say. It holds its own style, in light and in dark, runs no script and
  loads nothing. Everything in it is text, escaped by the transform; a link is made of nothing but an address
  that begins with http:// or https://. The document it is made from is an `elements` root with the elements of
  all inputs; each carries its eid.
-->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
                xmlns:n="http://www.logilab.org/namespaces/Narval/1.2" exclude-result-prefixes="n">

  <n:prototype>
    <n:description lang="en">A page of the mails that came in, by what became of them, and of the news in feeds.</n:description>
    <n:input id="mails" list="yes" optional="yes" newest="100"><n:match>email[not(@kind)]</n:match></n:input>
    <n:input id="answers" list="yes" optional="yes" newest="200"><n:match>email[@kind]</n:match></n:input>
    <n:input id="verdicts" list="yes" optional="yes" newest="200"><n:match>triage[@mail and @verdict]</n:match></n:input>
    <n:input id="items" list="yes" optional="yes" newest="200"><n:match>item[@feed]</n:match></n:input>
    <n:output id="page"><n:match>html</n:match></n:output>
  </n:prototype>

  <xsl:output method="xml" encoding="utf-8" omit-xml-declaration="yes"/>

  <!-- So many of a section are shown, and so much of a text; a page is for reading, memory keeps the rest. Of
       mails and items no more than that are looked at, the newest: a page costs the same however many came in. -->
  <xsl:param name="most" select="200"/>
  <xsl:param name="newest" select="100"/>
  <xsl:param name="excerpt" select="240"/>
  <xsl:param name="subject" select="160"/>

  <!-- An answer names the mail it answers; where that had no id, both are of one thread. -->
  <xsl:key name="answers" match="email[@kind]" use="@in-reply-to | self::email[not(@in-reply-to)]/@thread"/>
  <xsl:key name="verdicts" match="triage" use="@mail"/>
  <xsl:key name="feeds" match="item" use="@feed"/>

  <xsl:variable name="mails" select="//email[not(@kind)]"/>
  <xsl:variable name="answered" select="$mails[key('answers', @message-id | self::email[not(@message-id)]/@thread)]"/>
  <xsl:variable name="others" select="$mails[not(key('answers', @message-id | self::email[not(@message-id)]/@thread))]"/>
  <xsl:variable name="lists" select="$others[@list]"/>
  <xsl:variable name="machines" select="$others[@auto and not(@list)]"/>
  <xsl:variable name="people" select="$others[not(@auto) and not(@list)]"/>
  <xsl:variable name="left" select="$people[key('verdicts', @eid)/@verdict = 'leave']"/>
  <xsl:variable name="open" select="$people[not(key('verdicts', @eid)/@verdict = 'leave')]"/>
  <xsl:variable name="items" select="//item"/>

  <xsl:template match="/">
    <html lang="en">
      <head>
        <meta charset="utf-8"/>
        <meta name="viewport" content="width=device-width, initial-scale=1"/>
        <meta name="color-scheme" content="light dark"/>
        <meta name="referrer" content="no-referrer"/>
        <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
        <title>Digest</title>
        <style><xsl:call-template name="style"/></style>
      </head>
      <body>
        <header>
          <h1>Digest</h1>
          <xsl:call-template name="newest"/>
          <nav aria-label="Sections">
            <xsl:call-template name="count"><xsl:with-param name="id">open</xsl:with-param><xsl:with-param name="name">to answer</xsl:with-param><xsl:with-param name="of" select="$open"/></xsl:call-template>
            <xsl:call-template name="count"><xsl:with-param name="id">answered</xsl:with-param><xsl:with-param name="name">answered</xsl:with-param><xsl:with-param name="of" select="$answered"/></xsl:call-template>
            <xsl:call-template name="count"><xsl:with-param name="id">left</xsl:with-param><xsl:with-param name="name">left alone</xsl:with-param><xsl:with-param name="of" select="$left"/></xsl:call-template>
            <xsl:call-template name="count"><xsl:with-param name="id">machines</xsl:with-param><xsl:with-param name="name">from programs</xsl:with-param><xsl:with-param name="of" select="$machines"/></xsl:call-template>
            <xsl:call-template name="count"><xsl:with-param name="id">lists</xsl:with-param><xsl:with-param name="name">from lists</xsl:with-param><xsl:with-param name="of" select="$lists"/></xsl:call-template>
            <xsl:call-template name="count"><xsl:with-param name="id">feeds</xsl:with-param><xsl:with-param name="name">in feeds</xsl:with-param><xsl:with-param name="of" select="$items"/></xsl:call-template>
          </nav>
        </header>
        <main>
          <xsl:if test="not($mails | $items)"><p class="nothing">Nothing has come in.</p></xsl:if>
          <xsl:call-template name="section"><xsl:with-param name="id">open</xsl:with-param><xsl:with-param name="name">To answer</xsl:with-param><xsl:with-param name="of" select="$open"/></xsl:call-template>
          <xsl:call-template name="section"><xsl:with-param name="id">answered</xsl:with-param><xsl:with-param name="name">Answered</xsl:with-param><xsl:with-param name="of" select="$answered"/></xsl:call-template>
          <xsl:call-template name="section"><xsl:with-param name="id">left</xsl:with-param><xsl:with-param name="name">Left alone</xsl:with-param><xsl:with-param name="of" select="$left"/></xsl:call-template>
          <xsl:call-template name="section"><xsl:with-param name="id">machines</xsl:with-param><xsl:with-param name="name">From programs</xsl:with-param><xsl:with-param name="of" select="$machines"/></xsl:call-template>
          <xsl:call-template name="section"><xsl:with-param name="id">lists</xsl:with-param><xsl:with-param name="name">From lists</xsl:with-param><xsl:with-param name="of" select="$lists"/></xsl:call-template>
          <xsl:call-template name="feeds"/>
        </main>
      </body>
    </html>
  </xsl:template>

  <!-- The head ........................................................................................... -->

  <xsl:template name="newest">
    <xsl:for-each select="$mails/@date | $items/@published">
      <xsl:sort select="." order="descending"/>
      <xsl:if test="position() = 1">
        <p class="newest">
          <xsl:text>up to </xsl:text><xsl:call-template name="time"><xsl:with-param name="of" select="."/></xsl:call-template>
          <xsl:if test="count($mails) = $newest">, the newest <xsl:value-of select="$newest"/> mails</xsl:if>
        </p>
      </xsl:if>
    </xsl:for-each>
  </xsl:template>

  <xsl:template name="count">
    <xsl:param name="id"/>
    <xsl:param name="name"/>
    <xsl:param name="of"/>
    <xsl:if test="$of">
      <a href="#{$id}"><b><xsl:value-of select="count($of)"/></b><xsl:text> </xsl:text><xsl:value-of select="$name"/></a>
    </xsl:if>
  </xsl:template>

  <!-- Mails .............................................................................................. -->

  <xsl:template name="section">
    <xsl:param name="id"/>
    <xsl:param name="name"/>
    <xsl:param name="of"/>
    <xsl:if test="$of">
      <section id="{$id}">
        <h2><xsl:value-of select="$name"/></h2>
        <xsl:apply-templates select="$of">
          <xsl:sort select="@date" order="descending"/>
          <xsl:sort select="@eid" order="descending" data-type="number"/>
        </xsl:apply-templates>
        <xsl:call-template name="more"><xsl:with-param name="of" select="$of"/></xsl:call-template>
      </section>
    </xsl:if>
  </xsl:template>

  <xsl:template name="more">
    <xsl:param name="of"/>
    <xsl:if test="count($of) &gt; $most">
      <p class="more">and <xsl:value-of select="count($of) - $most"/> older</p>
    </xsl:if>
  </xsl:template>

  <xsl:template match="email">
    <xsl:if test="position() &lt;= $most">
      <article>
        <p class="from">
          <span><xsl:apply-templates select="." mode="sender"/></span>
          <xsl:call-template name="time"><xsl:with-param name="of" select="@date"/></xsl:call-template>
        </p>
        <h3 dir="auto">
          <xsl:call-template name="cut"><xsl:with-param name="text" select="normalize-space(@subject)"/><xsl:with-param name="most" select="$subject"/></xsl:call-template>
          <xsl:if test="not(normalize-space(@subject))"><i>no subject</i></xsl:if>
        </h3>
        <xsl:call-template name="excerpt"><xsl:with-param name="of" select="body"/></xsl:call-template>
        <xsl:apply-templates select="." mode="notes"/>
      </article>
    </xsl:if>
  </xsl:template>

  <xsl:template match="email" mode="sender">
    <xsl:choose>
      <xsl:when test="@from-name"><bdi class="name"><xsl:value-of select="@from-name"/></bdi><xsl:text> </xsl:text><bdi class="address"><xsl:value-of select="@from"/></bdi></xsl:when>
      <xsl:when test="@from"><bdi class="name"><xsl:value-of select="@from"/></bdi></xsl:when>
      <xsl:otherwise><i>no sender</i></xsl:otherwise>
    </xsl:choose>
  </xsl:template>

  <!-- Of a list its name, of an answer its time, of a mail left alone the reason; then what came with it. -->
  <xsl:template match="email" mode="notes">
    <xsl:variable name="answer" select="key('answers', @message-id | self::email[not(@message-id)]/@thread)[1]"/>
    <xsl:variable name="why" select="key('verdicts', @eid)[@verdict = 'leave'][1]/@why"/>
    <xsl:if test="$answer or $why or @list or @auto or attachment">
      <ul class="notes">
        <xsl:if test="$answer">
          <li class="good">answered <xsl:call-template name="time"><xsl:with-param name="of" select="$answer/@date"/></xsl:call-template></li>
        </xsl:if>
        <xsl:if test="@list"><li><bdi><xsl:value-of select="@list"/></bdi></li></xsl:if>
        <xsl:if test="@auto and not(@list)"><li><bdi><xsl:value-of select="@auto"/></bdi></li></xsl:if>
        <xsl:if test="$why and not(@list) and not(@auto)"><li><bdi><xsl:value-of select="$why"/></bdi></li></xsl:if>
        <xsl:for-each select="attachment">
          <li class="file"><bdi><xsl:value-of select="@name"/></bdi><xsl:text> </xsl:text><xsl:apply-templates select="@size"/></li>
        </xsl:for-each>
      </ul>
    </xsl:if>
  </xsl:template>

  <xsl:template match="attachment/@size">
    <span class="size">
      <xsl:choose>
        <xsl:when test=". &gt;= 1048576"><xsl:value-of select="format-number(. div 1048576, '0.0')"/> MB</xsl:when>
        <xsl:when test=". &gt;= 1024"><xsl:value-of select="format-number(. div 1024, '0')"/> kB</xsl:when>
        <xsl:when test=". &gt;= 0"><xsl:value-of select="."/> B</xsl:when>
      </xsl:choose>
    </span>
  </xsl:template>

  <!-- Feeds .............................................................................................. -->

  <xsl:template name="feeds">
    <xsl:if test="$items">
      <section id="feeds">
        <h2>In feeds</h2>
        <xsl:for-each select="$items[generate-id() = generate-id(key('feeds', @feed)[1])]">
          <xsl:sort select="@feed"/>
          <h3 class="feed" dir="auto"><xsl:value-of select="@feed"/></h3>
          <xsl:apply-templates select="key('feeds', @feed)">
            <xsl:sort select="@published" order="descending"/>
            <xsl:sort select="@eid" data-type="number"/>
          </xsl:apply-templates>
          <xsl:call-template name="more"><xsl:with-param name="of" select="key('feeds', @feed)"/></xsl:call-template>
        </xsl:for-each>
      </section>
    </xsl:if>
  </xsl:template>

  <xsl:template match="item">
    <xsl:if test="position() &lt;= $most">
      <article>
        <p class="from">
          <span>
            <xsl:choose>
              <xsl:when test="starts-with(@link, 'http://') or starts-with(@link, 'https://')">
                <a class="name" href="{@link}" rel="noopener noreferrer"><xsl:call-template name="title"/></a>
              </xsl:when>
              <xsl:otherwise><span class="name"><xsl:call-template name="title"/></span></xsl:otherwise>
            </xsl:choose>
            <xsl:if test="@author"><xsl:text> </xsl:text><bdi class="address"><xsl:value-of select="@author"/></bdi></xsl:if>
          </span>
          <xsl:call-template name="time"><xsl:with-param name="of" select="@published"/></xsl:call-template>
        </p>
        <xsl:call-template name="excerpt"><xsl:with-param name="of" select="summary"/></xsl:call-template>
      </article>
    </xsl:if>
  </xsl:template>

  <xsl:template name="title">
    <bdi>
      <xsl:call-template name="cut"><xsl:with-param name="text" select="normalize-space(@title)"/><xsl:with-param name="most" select="$subject"/></xsl:call-template>
      <xsl:if test="not(normalize-space(@title))"><i>no title</i></xsl:if>
    </bdi>
  </xsl:template>

  <!-- Small things ....................................................................................... -->

  <!-- Not the whole text is looked at: a text of megabytes would be normalised for its first line. -->
  <xsl:template name="excerpt">
    <xsl:param name="of"/>
    <xsl:variable name="text" select="normalize-space(substring($of, 1, $excerpt * 8))"/>
    <xsl:if test="$text">
      <p class="text" dir="auto">
        <xsl:call-template name="cut"><xsl:with-param name="text" select="$text"/><xsl:with-param name="most" select="$excerpt"/></xsl:call-template>
      </p>
    </xsl:if>
  </xsl:template>

  <xsl:template name="cut">
    <xsl:param name="text"/>
    <xsl:param name="most"/>
    <xsl:value-of select="substring($text, 1, $most)"/>
    <xsl:if test="string-length($text) &gt; $most">…</xsl:if>
  </xsl:template>

  <!-- A moment, ISO 8601 in UTC, to the minute. -->
  <xsl:template name="time">
    <xsl:param name="of"/>
    <xsl:if test="string($of)">
      <time datetime="{$of}"><xsl:value-of select="translate(substring($of, 1, 16), 'T', ' ')"/></time>
    </xsl:if>
  </xsl:template>

  <!-- No character here may need escaping: XML and HTML disagree about it within style. -->
  <xsl:template name="style">
:root { color-scheme: light dark; --paper: #fbfaf7; --ink: #24221e; --soft: #6c675d; --line: #e5e1d7; --mark: #2f6a53; --chip: #f1eee6; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #171613; --ink: #e9e5db; --soft: #9d978a; --line: #2d2a25; --mark: #8cc7ac; --chip: #22201c; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 3.5rem 1.25rem 5rem; max-width: 46rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; overflow-wrap: anywhere; }
h1, h2, h3, p, ul { margin: 0; padding: 0; }
h1 { font: 600 2.1rem/1.2 ui-serif, Georgia, "Noto Serif", serif; letter-spacing: -0.01em; }
h2 { font: 600 1.25rem/1.3 ui-serif, Georgia, "Noto Serif", serif; margin: 3.5rem 0 0.5rem; }
h3 { font-size: 1rem; font-weight: 600; }
h3.feed { margin: 1.75rem 0 0; color: var(--soft); font-size: 0.8rem; letter-spacing: 0.06em; text-transform: uppercase; }
i { color: var(--soft); font-weight: 400; }
a { color: inherit; text-decoration-color: var(--mark); text-decoration-thickness: 1px; text-underline-offset: 0.2em; }
a:hover { color: var(--mark); }
a:focus-visible { outline: 2px solid var(--mark); outline-offset: 3px; border-radius: 2px; }
.newest { color: var(--soft); font-size: 0.9rem; margin-top: 0.25rem; }
nav { display: flex; flex-wrap: wrap; gap: 0.4rem; margin-top: 1.5rem; }
nav a { background: var(--chip); border-radius: 1rem; padding: 0.15rem 0.7rem; font-size: 0.875rem; text-decoration: none; }
article { padding: 1rem 0; border-bottom: 1px solid var(--line); }
article:last-of-type { border-bottom: 0; }
.from { display: flex; justify-content: space-between; align-items: baseline; gap: 1.5rem; }
.from, .address, time, .size { color: var(--soft); font-size: 0.875rem; }
.from .name { color: var(--ink); font-weight: 500; }
a.name, span.name { font-size: 1rem; }
time { white-space: nowrap; font-variant-numeric: tabular-nums; }
.text { margin-top: 0.25rem; color: var(--soft); }
.notes { display: flex; flex-wrap: wrap; gap: 0.4rem; margin-top: 0.6rem; list-style: none; font-size: 0.825rem; }
.notes li { background: var(--chip); border-radius: 0.35rem; padding: 0.1rem 0.55rem; }
.notes time, .notes .size { font-size: inherit; }
.good { color: var(--mark); }
.more, .nothing { color: var(--soft); padding: 1rem 0; }
.nothing { margin-top: 3rem; }
@media (max-width: 30rem) { .from { display: block; } .from time { display: block; } }
@media print { body { max-width: none; padding: 0; } nav { display: none; } article { break-inside: avoid; } }
</xsl:template>
</xsl:stylesheet>
