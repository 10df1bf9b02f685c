// The job page's own elements.
import "./log.js";
import "./timeline.js";
