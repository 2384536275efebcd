"""A parsed plan of Spark as JSON, in one call into the JVM: all its parts, also those that are nobody's children.

Asked part by part from Python, a plan of a hundred parts takes a hundred milliseconds. The program below takes one.
It follows every field of every part (plans in expressions, common tables, windows, options); only literals and types
have nothing to follow.
"""

from __future__ import annotations

SOURCE = """
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.*;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry$;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistryBase;
import org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry$;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.DataType;

public class Outline {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  /** All parts in preorder: [number of the part around it, class, texts and flags of its fields, begin, end]. */
  public static String of(Object root) throws Exception {
    List found = new ArrayList();
    ArrayDeque waiting = new ArrayDeque();
    waiting.push(new Object[] {root, Integer.valueOf(-1)});
    while (!waiting.isEmpty()) {
      Object[] next = (Object[]) waiting.pop();
      Object one = next[0];
      if (one instanceof String || one instanceof Number || one instanceof Boolean) continue;
      if (one instanceof scala.collection.Iterable) {
        wait(((scala.collection.Iterable) one).iterator(), next[1], waiting);
        continue;
      }
      List facts = new ArrayList();
      int[] place = place(one);
      Object number = Integer.valueOf(found.size());
      found.add(Arrays.asList(new Object[] {
        next[1], one.getClass().getName(), facts, Integer.valueOf(place[0]), Integer.valueOf(place[1])}));
      if (!(one instanceof scala.Product) || one instanceof DataType || one instanceof Literal) continue;
      scala.collection.Iterator fields = ((scala.Product) one).productIterator();
      while (fields.hasNext()) facts.add(fact(fields.next()));
      wait(((scala.Product) one).productIterator(), number, waiting);
    }
    return write(found);
  }

  private static void wait(scala.collection.Iterator parts, Object parent, ArrayDeque waiting) {
    ArrayDeque reversed = new ArrayDeque();
    while (parts.hasNext()) {
      Object part = parts.next();
      if (part != null) reversed.push(part);
    }
    while (!reversed.isEmpty()) waiting.push(new Object[] {reversed.pop(), parent});
  }

  private static Object fact(Object field) {
    if (field instanceof String || field instanceof Boolean) return field;
    if (!(field instanceof scala.collection.Seq)) return null;
    List texts = new ArrayList();
    scala.collection.Iterator each = ((scala.collection.Iterable) field).iterator();
    while (each.hasNext()) {
      Object text = each.next();
      if (text instanceof String) texts.add(text);
    }
    return texts;
  }

  private static int[] place(Object one) {
    if (!(one instanceof TreeNode)) return new int[] {-1, -1};
    Origin origin = ((TreeNode) one).origin();
    if (!origin.startIndex().isDefined() || !origin.stopIndex().isDefined()) return new int[] {-1, -1};
    return new int[] {
      ((Number) origin.startIndex().get()).intValue(), ((Number) origin.stopIndex().get()).intValue() + 1};
  }

  /** [built-in functions with their groups, names that the session has added], of values and of tables.
      names: those that matter, joined by blanks. */
  public static String functions(FunctionRegistryBase values, FunctionRegistryBase tables, String names)
      throws Exception {
    Set wanted = new HashSet(Arrays.asList(names.split(" ")));
    Map groups = new HashMap();
    List added = new ArrayList();
    divide(values, FunctionRegistry$.MODULE$.builtin(), wanted, groups, added);
    divide(tables, TableFunctionRegistry$.MODULE$.builtin(), wanted, new HashMap(), added);
    return write(Arrays.asList(new Object[] {groups, added}));
  }

  private static void divide(
      FunctionRegistryBase own, FunctionRegistryBase builtin, Set wanted, Map groups, List added) {
    scala.collection.Iterator each = own.listFunction().iterator();
    while (each.hasNext()) {
      FunctionIdentifier name = (FunctionIdentifier) each.next();
      if (!wanted.contains(name.funcName().toLowerCase(Locale.ROOT))) continue;
      scala.Option info = own.lookupFunction(name);
      scala.Option known = builtin.lookupFunction(name);
      if (info.isDefined() && known.isDefined() && info.get() == known.get())
        groups.put(name.funcName(), ((ExpressionInfo) info.get()).getGroup());
      else added.add(name.funcName());
    }
  }

  private static String write(Object found) throws Exception {
    return MAPPER.writeValueAsString(found);
  }
}
"""
