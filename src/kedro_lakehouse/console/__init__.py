"""The console: pages over the lake in a browser, on this machine only.

Names and values that come from data are shown by elements that take them for text (``st.text``,
``st.dataframe``, charts, options of ``st.selectbox``), never by Markdown or HTML.
"""
