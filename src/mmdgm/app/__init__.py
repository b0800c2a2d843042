"""The pages in the browser: a server for this computer alone, and the pages Play and Label."""
