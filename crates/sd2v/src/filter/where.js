function where(obj) {
    if (!where.run) {
        var source = SOURCE.replace(/[;\s]+$/, "");
        var inGlobal = eval;
        var parses = function(text) {
            try {
                new Function(text);
                return true;
            } catch (e) {
                return false;
            }
        };
        // Without a return outside of functions.
        var isScript = function(text) {
            try {
                inGlobal("if (false) { " + text + "\n}");
                return true;
            } catch (e) {
                return false;
            }
        };
        var isValue = function(text) {
            return !/^\s*(\{|$)/.test(text) && parses("return (" + text + "\n);");
        };
        // The last statement of a series is its value, if it is an expression.
        var returning = function(text) {
            for (var at = text.length - 1; at > 0; at--) {
                if (";}\n".indexOf(text[at - 1]) >= 0) {
                    var before = text.slice(0, at), last = text.slice(at);
                    if (!/^\s*function\b/.test(last) && isValue(last) && parses(before)) {
                        return before + "return (" + last + "\n);";
                    }
                }
            }
            return text;
        };
        var body = source;
        if (/^(\s|\/\*[\s\S]*?\*\/|\/\/.*\n)*function\b/.test(source)) {
            body = "return (" + source + "\n).call(this);";
        } else if (isValue(source)) {
            body = "return (" + source + "\n);";
        } else if (isScript(source)) {
            body = returning(source);
        }
        where.run = inGlobal("(function(obj) { return (function() { " + body + "\n}).call(obj); })");
    }
    RESERVED.forEach(function(name) { delete obj[name]; });
    return !!where.run(obj);
}
